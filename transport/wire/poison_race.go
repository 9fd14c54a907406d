//go:build race

package wire

// poison overwrites freed frames, so that a batch that still points into one is found.
const poison = true
