"""What every endpoint needs: bearer tokens, bodies, error bodies, paging, request ids."""
