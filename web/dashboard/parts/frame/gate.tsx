import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The page before one is signed in: one card in the middle. */
export function Gate({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Stoa`;
  }, [title]);
  return (
    <main class="gate">
      <div class="card stack">
        <p class="brand">Stoa</p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}
