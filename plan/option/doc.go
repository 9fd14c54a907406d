// Package option declares what a plugin may be told and decodes what a job file tells it.
//
// A plugin declares a Spec once. From it come validation with nearest-name hints, the values the plugin
// reads, redaction of secrets, `stctl connector show` and the reference pages. Node is the parsed value
// tree; plan/config builds it.
//
//	Node ──Spec.Decode──▶ Values (typed, defaults filled in) + mistakes in a fault.List
//
// Decode is strict: a key that no option declares is a mistake, unless the spec lists it as one SeaTunnel
// ignores (a warning then). All mistakes of a block are reported at once.
package option
