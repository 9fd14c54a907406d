// Package tattle is a sink that tells every secret it is given, for tests of the engine: only the build tag failpoint
// has it. No release does.
//
// Its options hold secrets in all the ways a plugin can have them. On the worker it compares their SHA-256 with what
// the test expects, so that a run that goes through proves that the values arrived; then it puts them into errors,
// panics and log lines, as careless drivers do. What the engine lets out of that is a leak.
package tattle
