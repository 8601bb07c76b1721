//! Target in, the cloud and cluster objects that are wanted out. Pure.
