// Package units parses and prints sizes and durations as job files and flags write them: 64MiB, 10s, 1500.
// A leaf: everybody may import it and it imports nothing of ours.
package units
