# The fenced block number `number` in language `language` of the section `section` of a Markdown page.
/^## / { here = substr($0, 4) == section }
/^```/ && inside { inside = 0; next }
/^```/ { inside = 1; wanted = here && substr($0, 4) == language && ++count == number; found += wanted; next }
inside && wanted
END { if (!found) { print "no block " number " in " language " under " section > "/dev/stderr"; exit 1 } }
