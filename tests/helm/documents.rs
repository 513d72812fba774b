//! What the documentation says about the chart is so.
