// Package all links the transforms of this build.
package all
