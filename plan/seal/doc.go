// Package seal puts a job's secrets under the fleet's key before the job is stored, and gives them back on a worker.
//
//	submit   text + -i + environment ──Text──▶ text with tokens, only the variables it still needs
//	leader   job ──Plan──▶ the same job, in its plan no secret in clear
//	worker   options of a plugin ──Expand──▶ options with tokens opened, ${env:NAME} and ${file:PATH} filled in
//
// What is secret, plan/option says: options declared so, keys named so in free-form maps, passwords in URLs. To that
// come values that stand encoded in the text (env.shade.identifier), and constants of the file that are secrets
// themselves or part of one.
//
// Invariants
//
//  1. The sealed text reads as the same job, line by line, but for tokens in the place of values: Text reads it again
//     and compares before it gives it out.
//  2. A variable or a comment that only a secret needed is not stored.
//  3. A value is shown by nobody: messages name place, option, key id, variable or file.
//
// A token is opened wherever it stands in a text, declared secret or not, so a constant may be sealed where it is
// written. What is opened is data: a ${env:NAME} inside is not filled in.
//
// Pure: the caller brings randomness, environment and files.
package seal
