/** @jsxImportSource react */
import { useRef } from "react";
import { useStyle } from "../react/conference/use-style.ts";

/** Tells the page's developer which attributes are missing. */
export function MissingAttributes({ tag, names }: { tag: string; names: string }) {
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Call">
      <div className="stoa-message">
        <p role="status">
          {`<${tag}>`} needs the attributes {names}. Your backend mints their values.
        </p>
      </div>
    </section>
  );
}
