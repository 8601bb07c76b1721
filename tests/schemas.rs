//! Schemas and CRDs: no drift, and the same judgement as the rules.
