/** @jsxImportSource react */
import { useRef } from "react";
import { useStyle } from "../react/conference/use-style.ts";

/** The text for an element with missing attributes; null when it has all of them. */
export function missingText(tag: string, values: Record<string, string | null | undefined>): string | null {
  const missing = Object.keys(values).filter((name) => !values[name]);
  if (missing.length === 0) return null;
  const last = missing.pop();
  const names = missing.length === 0 ? `attribute ${last}` : `attributes ${missing.join(", ")} and ${last}`;
  return `<${tag}> needs the ${names}. Your backend mints ${missing.length === 0 ? "its value" : "their values"}.`;
}

/** Tells the page's developer which attributes are missing. */
export function MissingAttributes({ text }: { text: string }) {
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Call">
      <div className="stoa-message">
        <p role="status">{text}</p>
      </div>
    </section>
  );
}
