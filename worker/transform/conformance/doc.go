// Package conformance checks a transform against the rules of package transform. Every plugin calls it from its
// tests:
//
//	conformance.Run(t, conformance.Case{Plugin: "Copy", Options: `{…}`, In: table})
//
// It checks that Output gives the same table twice and leaves the one that goes in alone; that Apply does not
// change its input, gives arrays of the declared types, and nil where no row is left; that a batch cut into slices
// at any row gives the same rows as the whole, with and without row kinds; and that columns of nulls pass.
//
// Mistake checks what a plugin refuses. Open gives a runner and a batch for what a plugin's tests look at themselves.
package conformance
