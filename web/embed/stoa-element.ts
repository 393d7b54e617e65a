import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";

const HOST_STYLE = `
:host { display: block; min-height: 320px; height: 480px; color-scheme: light dark; }
:host([hidden]) { display: none; }
`;

/** A custom element that renders a component in an open shadow root. It joins when connected to a page and leaves when removed. */
export abstract class StoaElement extends HTMLElement {
  #root: Root | null = null;
  #renderScheduled = false;

  constructor() {
    super();
    const shadow = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(HOST_STYLE);
    shadow.adoptedStyleSheets = [sheet];
  }

  connectedCallback(): void {
    this.#scheduleRender();
  }

  disconnectedCallback(): void {
    // An element that is only moved within the page is connected again before this runs.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#root?.unmount();
      this.#root = null;
    });
  }

  attributeChangedCallback(): void {
    this.#scheduleRender();
  }

  /** The content for the current attributes. */
  protected abstract content(): ReactNode;

  /** Dispatches an event that bubbles and crosses enclosing shadow roots. */
  protected dispatch(type: string, detail?: unknown): void {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true }));
  }

  /** Whether the attribute is neither `off` nor `false`. */
  protected isOn(name: string): boolean {
    return !["off", "false"].includes(this.getAttribute(name) ?? "");
  }

  /** Renders once after several attributes have been set in a row. */
  #scheduleRender(): void {
    if (this.#renderScheduled) return;
    this.#renderScheduled = true;
    queueMicrotask(() => {
      this.#renderScheduled = false;
      if (!this.isConnected || !this.shadowRoot) return;
      this.#root ??= createRoot(this.shadowRoot);
      this.#root.render(this.content());
    });
  }
}
