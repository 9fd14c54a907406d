// Package fault has the errors that cross package borders with a meaning attached: is trying again of
// any use, and where in the user's text is the mistake.
//
// An error without a mark is retryable: whoever knows better says so with Fatal. The property is typed,
// it is never found by searching the text. A Position is the place in a job file; all mistakes of one
// file are collected in a List and shown at once.
//
// The package is a leaf: everybody may import it and it imports nothing of ours.
package fault
