//! What a link makes of the frames of a gateway elsewhere.
