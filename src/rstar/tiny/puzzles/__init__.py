"""Problems whose solution is a search: numbers, boards, grids, choices, walks."""
