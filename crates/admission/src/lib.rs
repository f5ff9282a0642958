//! TLS server, certificate life cycle and the registry of admission handlers.
