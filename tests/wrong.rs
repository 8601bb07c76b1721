//! Wrong fleets with their expected diagnostics, and the stories of the codes.
