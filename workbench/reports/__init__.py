"""Reports: what a scripted analysis found, as JSON with a published schema, CSV, Markdown and one offline HTML file."""
