import { signal } from "@preact/signals";

/** A key that was just made: in memory until the page is left, because nobody can show it again. */
export const freshKey = signal<{ projectId: string; key: string } | null>(null);
