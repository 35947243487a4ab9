"""From trained weights to translations: export to CTranslate2, loading, beam search."""
