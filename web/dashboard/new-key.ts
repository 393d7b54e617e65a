import { signal } from "@preact/signals";

/** The key that was just created. It is kept in memory only, because the server cannot show it again. */
export const newKey = signal<{ projectId: string; key: string } | null>(null);
