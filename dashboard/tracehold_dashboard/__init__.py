"""The Streamlit pages. They know the collector by its HTTP API only."""
