// Package config reads a SeaTunnel job file, HOCON or JSON, into a Job, and with ParseSettings a file of settings of
// Strait's own into a node.
//
//	text ──lexer──▶ reader ──sanitised text──▶ HOCON library ──tree──▶ resolver ──nodes──▶ builder ──▶ Job
//	                  └────────── shape: names, order, places, scalars ────▲ ${…} of keys       blocks, wiring,
//	                                                                                            shade, warnings
//
// The library nests and merges objects. It loses the order of keys, joins plugins of one name, does not decode
// escapes and panics on some input, so it sees generated names only (shape.go): keys k1, k2, …, scalars "v1",
// "v2", …, plugin sections as lists. Everything a user wrote waits in the side table and is put back afterwards.
//
// Invariants
//
//  1. Parse is pure: the same text, variables and environment give the same job, warnings and errors.
//  2. No input makes it panic or run away: text, nesting, number of values, expansion by variables and by
//     references are bounded, each with its own message.
//  3. Whatever the library is given it accepts; an error or a panic of it is reported as a BUG.
//  4. Messages name keys and places, never a value outside of a plugin's wiring: it may be secret.
//
// The dialect is SeaTunnel's: source, transform and sink become lists with plugin_name; a dot in a key does not
// nest, -> does; an unknown ${x} stays. Where it is more generous than SeaTunnel:
// ${x:default} outside quotes, an unquoted http://host:80/x, decimal(10,2) and map<string, int>, tabs inside
// quotes, the list form of a section in HOCON, and a section given twice (the plugins of both run, with a warning).
//
// ${x} is looked up in Options.Vars, then (outside quotes) among the keys of the file, then in the environment,
// then its default counts. Table placeholders such as ${table_name}, and ${env:NAME} and ${file:PATH}, which the
// worker resolves, always stay; ${now}, ${uuid}, ${transactionId}, ${k0}, ${v0} stay unless -i names them.
//
// A settings file has no plugins and no placeholders, and the dots of its keys nest (settings.go).
//
// ParseEditable also knows where each value stands in the text, for those who put others there (plan/seal, Shade).
//
// Decisions with their rejected alternatives are in DESIGN.md.
//
// The package refuses include and job files in SQL. It reads no file, and knows nothing of plugins' options.
package config
