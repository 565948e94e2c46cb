import { createRoot } from "react-dom/client";
import { App } from "./app";
import { exported, server } from "./source";
import "./style.css";

const root = document.getElementById("app");
if (root) createRoot(root).render(<App source={window.cosmosBatch ? exported(window.cosmosBatch) : server} />);
