// Package known lists the plugins SeaTunnel has, by section, so that a name this build does not have is told from
// a misspelt one. names.tsv is the one list: section, name, and, for a plugin that will never be here, why and
// what to use instead. Plugins of this build may stand in it too; whoever asks looks into the registries first.
package known
