// Package cli is stctl: the commands, what they print, and the exit codes.
//
//	run            etcd, coordinator and worker in this process, one job, exit with its outcome
//	serve          coordinator | worker | standalone: the roles of a fleet
//	job, worker    what is in etcd: submit, list, status, describe, wait, cancel
//	check, plan    a job file without a cluster
//	connector      the plugins of this build, from their declared options
//
// Every command writes for people unless --output json is given. Standard output carries results, standard
// error carries logs and mistakes. Exit codes come from ExitCode alone.
package cli
