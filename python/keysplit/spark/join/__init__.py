"""`join`: a join whose hot keys are spread over several workers."""
