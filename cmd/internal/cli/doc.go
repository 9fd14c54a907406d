// Package cli is stctl: the commands, what they print, and the exit codes.
//
//	run            etcd, coordinator and worker in this process, one job, exit with its outcome
//	serve          coordinator | worker | standalone: the roles of a fleet
//	job            what is in etcd: submit, list, status, describe, wait, cancel; and what all processes logged: logs
//	worker         list, describe, drain, undrain, fence
//	doctor         a fleet from all sides: etcd, processes over their operations ports, jobs
//	check, plan    a job file without a cluster
//	connector      the plugins of this build, from their declared options
//
// Every command writes for people unless --output json is given. Standard output carries results (rows of a
// Console, ids, tables, one JSON value), standard error the rest: what a job waits for, its end, logs, mistakes.
// Exit codes come from ExitCode alone.
//
//	settings     (../settings) the table of settings; load gives a command those of its roles
//	take         the command line, judged before the library sees it: flags behind arguments, nearest names
//	display      decides what is shown of a job that runs; a pure step over states, counters and the time
//	screen       standard error; on a terminal a block of live lines that makes room for whoever else prints
//	follower     moves a display: the watch of the job's keys, the leader's counters, the clock
//	logReader    the logs of a job from many processes, merged by time; logFollower goes on with what comes
//	findings     what doctor found, line by line; each check is a pure step over what was answered
//	roles        coordinator and worker as parts of this process, with their ports
package cli
