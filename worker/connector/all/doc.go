// Package all links the connectors of this build.
package all
