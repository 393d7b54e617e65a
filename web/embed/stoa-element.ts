import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";

const HOST_STYLE = `
:host { display: block; min-height: 320px; height: 480px; color-scheme: light dark; }
:host([hidden]) { display: none; }
`;

/** A custom element whose open shadow root holds a component: it joins when it is put into a page, and leaves with it. */
export abstract class StoaElement extends HTMLElement {
  #root: Root | null = null;
  #due = false;

  constructor() {
    super();
    const shadow = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(HOST_STYLE);
    shadow.adoptedStyleSheets = [sheet];
  }

  connectedCallback(): void {
    this.#renderSoon();
  }

  disconnectedCallback(): void {
    // Moved within the page, it is back before this runs.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#root?.unmount();
      this.#root = null;
    });
  }

  attributeChangedCallback(): void {
    this.#renderSoon();
  }

  /** What it shows now, by its attributes. */
  protected abstract content(): ReactNode;

  /** Bubbles, and passes out of shadow roots around. */
  protected tell(type: string, detail?: unknown): void {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true }));
  }

  /** An attribute that is on unless it says `off` or `false`. */
  protected isOn(name: string): boolean {
    return !["off", "false"].includes(this.getAttribute(name) ?? "");
  }

  /** Several attributes are set one after the other: one look at all of them is enough. */
  #renderSoon(): void {
    if (this.#due) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      if (!this.isConnected || !this.shadowRoot) return;
      this.#root ??= createRoot(this.shadowRoot);
      this.#root.render(this.content());
    });
  }
}
