"""What all experiments share: how they are declared, run, stored, judged, drawn and written as a page."""
