// Package settings is every setting of the roles and of the connection to etcd, declared once, in the table of
// table.go. From it come the flags of the commands, the environment variables, the settings file, `serve --help`,
// and the sample file scripts/strait.conf.
//
//	file  <  environment  <  flag behind stctl  <  flag behind the command        which value counts
//
//	table ──┬─▶ Flags(roles)        flags of a command
//	        ├─▶ Load(c, roles)      Values, from all four places
//	        ├─▶ Reference(roles)    help
//	        └─▶ Sample()            scripts/strait.conf
//
// To add a setting: one line in the table, one read of its field where the role is put together,
// values.Int("worker.slots"); then `go test ./cmd/internal/... -update`. The test of cmd/internal/cli refuses a
// setting that nobody reads.
//
// Invariants
//
//  1. A mistake is told with the place of the value (flag, variable, or file:line and path), what was found and
//     what to write, and all mistakes of a command at once.
//  2. A key of the file that no setting has is a mistake, with the nearest name.
//  3. The value of a secret is in no help and in no message. A secret has no flag: the command line of a process is
//     seen by everybody on its host.
//
// The file is one for all roles of a host: a role reads its own settings and judges the others only by their form.
// Of the environment a command reads only the variables of its own settings.
package settings
