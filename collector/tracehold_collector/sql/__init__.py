"""An analyst's own SELECT, run in a process that holds nothing but what the asker may see (decision 21)."""
