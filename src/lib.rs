//! graph-relay: the desktop.
