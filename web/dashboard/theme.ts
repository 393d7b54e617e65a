import { effect, signal } from "@preact/signals";

export const THEMES = ["System", "Light", "Dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "stoa-theme";

/** The chosen colours, kept in the browser. */
export const theme = signal<Theme>(THEMES.find((name) => name === localStorage.getItem(KEY)) ?? "System");

effect(() => {
  localStorage.setItem(KEY, theme.value);
  document.documentElement.dataset.theme = theme.value;
});
