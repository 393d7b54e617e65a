/** Taken for markup anywhere, it would run. Short enough for a name. */
export const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'&`;
