// Package kvtest gives tests a real etcd: embedded, in a temporary directory, gone with the test.
//
//	store := kvtest.Start(t)               one store, in process, no socket
//
//	etcd := kvtest.New(t)                  the same with its parts at hand
//	etcd.Store                             in process
//	etcd.Open(t)                           another client over TCP, "another process"
//	proxy := etcd.Proxy(t)                 a TCP proxy in front: Cut, Blackhole, Delay
//	etcd.Open(t, proxy.Addr())             a client that the proxy can harm
//
// Everything is closed in the right order (clients before the server) when the test ends. Writes
// are not fsynced. For tests only; nothing here is a mock.
package kvtest
