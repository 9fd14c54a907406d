// Package harness starts real fleets for tests: child processes of the real binary on loopback, each with its
// own data folder, killed at the end of the test.
//
//	f := harness.Start(t, harness.Options{Workers: 3})
//	r := f.Stctl("job", "submit", "orders.conf")
//	f.Kill("w2")          // SIGKILL
//	f.Keys("/strait/v1/") // what etcdctl would list
//
// The binary is built once per test process, with failpoints, and with the race detector when the test has it.
package harness
