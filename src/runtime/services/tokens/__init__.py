"""What becomes of issued tokens: asked about, ended before their time, told to those who cannot ask."""
