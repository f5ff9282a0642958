//! CRI v1 client for containerd and CRI-O.
