"""Sphinx's settings of the site. scripts/site/make_site.py passes the folder of the pages."""

project = "rtrain"
html_title = "rtrain"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_theme_options = {"top_of_page_buttons": [], "navigation_with_keys": True}
pygments_style = "tango"
pygments_dark_style = "monokai"
highlight_language = "text"  # for code blocks without a language: shells, diagrams
smartquotes = False

# The pages are written for the repository, so anchors are those of GitHub, and other syntax of MyST is disabled.
myst_heading_anchors = 4
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
nitpicky = True
