import { useState } from "preact/hooks";

/** Text with a copy button, such as a key or a command. */
export function CodeBlock({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2_000);
  };
  return (
    <button type="button" class="button" aria-label={`Copy ${label}`} onClick={() => void copy()}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
