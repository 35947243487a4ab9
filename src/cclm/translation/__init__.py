"""From trained weights to translations: the export to CTranslate2, and its beam search."""
