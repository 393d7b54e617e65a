import { THEMES, type Theme, theme } from "../../theme.ts";

const SIGNS: Record<Theme, string> = { System: "◐", Light: "○", Dark: "●" };

/** Changes between the system's colours, light and dark. */
export function ThemeSwitch() {
  const next = () => {
    theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "System";
  };
  const label = `Theme: ${theme.value.toLowerCase()}`;
  return (
    <button type="button" class="button quiet theme" aria-label={label} title={label} onClick={next}>
      {SIGNS[theme.value]}
    </button>
  );
}
