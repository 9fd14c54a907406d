// Package text has the transforms on the text of values: Replace and Split.
//
// Both take Java's regular expressions. They run on Go's engine, which never backtracks: a pattern is translated
// (Compile), and what cannot be is refused by name before the job runs: look-around, back references, possessive
// quantifiers, atomic groups, class intersections. Known differences that stay: `$` matches only at the very end,
// not before a last line end, and \b knows ASCII letters only.
package text
