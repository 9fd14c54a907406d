package shuffle

// SetIncarnation completes the configuration, before Run: a worker learns its incarnation when it publishes the
// address that Listen took.
func (s *Service) SetIncarnation(n int64) { s.cfg.Incarnation = n }
