//! The intent log as a library.
