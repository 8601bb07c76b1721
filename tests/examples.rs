//! Every example and cluster is loaded and valid.
