import { THEMES, theme } from "../../theme.ts";
import { Choice } from "../tabs.tsx";

/** Chooses light or dark colours, or those of the system. */
export function ThemeSwitch() {
  return (
    <Choice
      label="Colours"
      value={theme.value}
      onValue={(chosen) => {
        theme.value = chosen;
      }}
      options={THEMES}
    />
  );
}
