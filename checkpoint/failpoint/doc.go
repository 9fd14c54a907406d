// Package failpoint names the places where tests let the engine die, fail or wait.
//
// Without the build tag failpoint, Inject is an empty function and the names cost nothing. With it, the variable
// STRAIT_FAILPOINTS holds entries separated by ';':
//
//	file.rename=kill@2      SIGKILL this process when the point is reached for the second time
//	worker.ack=error        Inject returns an error, every time
//	worker.ack=error@1      only the first time
//	task.prepare=sleep:3s   wait there
//	task.prepare=panic
//
//	task.prepare=hold/PATH  wait there until something is written into the file
//
// With every action a file may be named after '/', as in kill@2/PATH: it is created first, and while it is there the
// point does nothing, so that the restarted process goes on. A test sees by it that the point is reached.
//
// A leaf: everybody may import it and it imports nothing of ours.
package failpoint
