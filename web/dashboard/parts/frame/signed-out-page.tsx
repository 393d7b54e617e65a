import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The layout of the pages before sign-in: a card in the centre. */
export function SignedOutPage({ title, children }: { title: string; children: ComponentChildren }) {
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
